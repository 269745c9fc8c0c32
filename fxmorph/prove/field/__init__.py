"""Programs run on random elements of finite fields."""
